"""The words that tools, and the people who want them, use for the same thing, by domain.

`[domain]` opens a domain. Each line below it is one notion: `both sides | only in a query`. A word
before the bar stands for the notion in a tool as in a query; a word after the bar only hints at it
when somebody asks. `a_b` is a phrase. Notions of `[actions]` belong to no domain.
"""

VOCABULARY = """
[actions]
list enumerate show display listing 列出 | see print what_are catalogue inventory
get fetch retrieve obtain return getter pull acquire grab 获取 | give tell provide show check know what_is see request access
read load open view get_contents parse reader 读取 | look_at look_through look_into what_is_in tell_me go_through introduce inspect examine
search find query lookup look_up discover locate searcher finder 搜索 查询 查找 检索 | look_for where_is hunt seek which explore match browse identify
create add new make generate build insert initialize define register 创建 生成 添加 | start set_up compose produce begin brand_new introduce prepare design construct
write save store append put 写入 保存 | record keep put_down jot persist export draft compose document_it
delete remove erase drop destroy purge trash discard unlink clear prune 删除 | get_rid_of wipe strip throw_away clean eliminate take_off take_out forget cut detach
update edit modify change patch alter replace revise adjust set 更新 修改 编辑 | correct fix rewrite tweak overwrite improve swap substitute
move rename relocate 移动 | put_into shift another_place new_name
copy duplicate clone replicate 复制 | same_again mirror
send post submit deliver publish push 发送 | share reply forward announce notify broadcast
compare diff difference contrast comparison 比较 对比 | differ between changed changes versus vs similarity side_by_side
convert transform converter turn_into encode decode conversion 转换 | into switch change_format back_into express_as
calculate compute calculator evaluate calculation arithmetic 计算 | how_much sum work_out total percentage average multiply divide subtract estimate equation formula figure_out ratio
analyze analysis analytics examine inspect assess 分析 | insight understand investigate evaluate study breakdown
summarize summary summarise overview abstract digest summarizer 摘要 总结 | gist key_points main_points outline introduce tldr briefly short_version condense boil_down recap
recommend suggest recommendation suggestion advise 推荐 | advice idea what_should best ideal should_i improve help_me_choose which_one tips
execute run exec invoke perform 执行 | carry_out launch evaluate
start begin launch initiate 启动 | kick_off bring_up spin_up boot
stop end terminate kill cancel abort close shutdown 停止 | quit shut_down cut_off force_quit finish stuck hanging
check verify validate validator confirm validation 验证 检查 | make_sure whether is_it ensure legit legitimate correct valid exists syntax
download 下载 | grab pull_down offline save_locally
upload import attach 上传 | put_online
export dump 导出 | write_out
merge combine join concatenate merger 合并 | together put_together into_one single
split separate divide splitter chunk 拆分 | break_up break_into apart pieces
extract parse scrape extractor 提取 | take_from dig_out pull_out isolate
monitor watch track tracking 监控 | keep_an_eye follow observe
plan schedule planning arrange 计划 | organize itinerary timetable prepare
install setup configure 安装 | put_on set_up
reset restart reload refresh undo revert rollback restore | put_back take_back go_back_to undo_it
share invite grant permission | give_access let_others
approve accept complete mark_done | sign_off finished done
rank ranking top leaderboard leader_board trending popular hot rating 排行 榜单 热榜 热门 | most highest leading famous best_selling hottest what_is_new charts bestseller
format formatter style beautify 格式 | tidy formatted layout pretty
draw drawing paint render 绘制 | sketch picture
count total statistics stats 统计 | how_many number_of
describe info information details detail metadata profile 详情 信息 | tell_me_about more_about learn_about background specifics
history historical past previous log 历史 | over_time recent last_year past_year past_month last_month last_days yesterday previously
current latest now live today realtime recent 最新 实时 当前 | right_now nowadays at_the_moment as_of_now up_to_date newest
multiple batch bulk many several 批量 | at_once all_of together simultaneously in_one_go
next previous forward back | following onward return
status state progress 状态 | how_is ready alive still_running working is_it_up condition
label tag categorize classify category 标签 分类 | sort_into group_by mark_as tagged
filter 筛选 | only_those narrow_down restrict matching leave_out
wait sleep delay pause timeout | hold_on seconds_later until
resolve close_issue | settle deal_with
enable activate turn_on switch_on | allow unlock
disable deactivate turn_off switch_off | block mute
ping echo greet hello | is_it_there reachable respond test_connection
detect recognize recognition identify 识别 检测 | spot notice tell_apart figure_out_what

[files]
file files 文件 | txt attachment script document disk
filesystem file_system directory allowed_directories | local computer hard_drive disk
directory folder dir 目录 文件夹 | location_on_disk
list_directory directory_tree list_files | ls folder_structure folder_contents tree inside_a_folder nested_view
directory_tree recursive tree | nested hierarchy subfolders
create_directory make_directory mkdir | new_folder make_folder
write_file create_file edit_text_file | save_to saved_to saved_at save_it write_to report_to new_file put_in_a_file store_in create_file save_the_file text_file
read_file file_contents get_file_contents read_text_file | open_the_file read_the_file contents_of text_of
move_file rename | relocate
file_info file_metadata | size timestamp timestamps modified_time how_big permissions last_modified
with_sizes size | disk_space how_large bytes
search_files find_files | locate_file matching_files pattern by_name
read_multiple_files | several_files
edit_file edit_block line_based | line lines line_number find_and_replace
allowed_directories allowed | may_access permitted which_folders
archive zip compress unzip | tar gz
image picture photo media jpg png 图片 图像 | photograph graphic illustration
base64 data_uri | encoded_image

[terminal]
shell command terminal bash powershell start_process cli execute_command 命令 | command_line console python script program interpreter subprocess
process pid processes 进程 | task_manager running_program application
code script snippet program 代码 | python javascript typescript java rust
configuration config setting preference 配置 | options
clipboard window desktop keyboard mouse screen

[documents]
pdf portable_document
word docx document office_word | letter essay report doc
excel spreadsheet xlsx sheet workbook worksheet 表格 | csv xls cells tabular
presentation ppt pptx powerpoint slide slideshow 幻灯片 演示 | keynote deck talk
create_presentation new_presentation | make_slides
add_slide insert_slide | slides
add_paragraph add_heading paragraph heading | text_content body_text section_title
picture image insert_image | figure
table column row cell | rows
template layout theme placeholder | professional
footnote endnote citation
document_reader read_document read_pdf
markdown md
html webpage | dom
json xml yaml | structured
text string 文本 | plain words
font color bold
svg vector_graphic
protect unprotect password encrypt 加密 | lock
text_diff diff compare | lines_that_differ
ocr extract_image image_text vision | what_is_in_this_image read_the_image
search_and_replace find_and_replace
create_document new_document | blank_document
outline structure headings 大纲

[charts]
chart graph plot visualization visualize 图表 可视化 | data_viz curve figure
bar_chart column_chart histogram | bars distribution
pie_chart | proportion breakdown share percentages
line_chart | trend_over_time
flow_diagram flowchart diagram mermaid flow_chart 流程图 | process_steps
mind_map mindmap 思维导图 mapas_mentais | brainstorm
word_cloud wordcloud 词云 | frequent_words
organization_chart network_graph treemap | hierarchy relationships
fishbone_diagram sankey_chart funnel_chart radar_chart venn_chart | root_cause flows conversion overlap
district_map pin_map path_map
canvas rectangle drawing 画布 | pixel shape

[notes]
note notes memo notebook journal 笔记 | takeaway jot_down write_down diary
knowledge_graph entity entities | people_and_things concept node stored
relation relations relationship | link connection connect association edge
observation observations | facts fact detail statement
search_nodes open_nodes node nodes read_graph | knowledge_base by_name entire
memory remember recall | past stored memorise
insight memo | takeaway finding lesson
task todo to_do checklist 任务 | chores next_step steps
project workspace board milestone 项目
request approval

[git]
git repository repo version_control 仓库 | working_copy
branch branches 分支 | fork
commit commits 提交 | revision record_changes snapshot
git_status working_tree_status | untracked modified staged
git_diff diff | differ changed_lines branches
unstaged git_diff_unstaged | not_staged not_yet_staged uncommitted
staged git_diff_staged staged_for_commit | index about_to_commit
git_reset unstage | take_out_of_index
git_add stage staging | add_to_index next_commit
git_log commit_history commit_logs | who_changed history past_commits recent_commits
git_show show_commit | single_commit inside_a_commit
git_checkout switch_branch switches_branches | go_to_branch another_branch existing_branch
git_init new_git_repository | start_repository brand_new_repository
github gitlab bitbucket | open_source stars
pull_request merge_request pr | code_review
issue ticket bug jira | defect

[packages]
package library module npm pypi maven crate nuget gem 依赖 | framework
dependency dependencies deps | transitive requirement
vulnerability vulnerabilities security cve 漏洞 | secure insecure security_scan safe exploit
version release changelog 版本 | newest
bundle_size package_size size | footprint performance
license compatibility maintainer maintenance deprecated | abandoned legal alternatives
documentation docs readme reference manual 文档 | guide how_to usage learn
library_docs library_id up_to_date_documentation | api code_example framework sdk
component ui widget button shadcn 组件 | frontend front_end interface
animation effect background | motion transition
icon symbol emoji 图标
example sample demo snippet 示例
deepwiki wiki | repository_documentation

[devops]
container docker compose image 容器 | containers
kubernetes k8s pod cluster namespace
deploy deployment rollout release 部署 | ship
logs log trace observability 日志 | error_log
server instance virtual_machine vm host 服务器 | machine
cloud aws azure gcp
metric monitoring dashboard alert 指标 | health uptime
workflow pipeline automation job 工作流 | automate
api endpoint rest swagger openapi 接口 | http_client http_request headers
webhook callback
environment variable env secret credential
debug debugger breakpoint disassemble decompile
test testing unit_test 测试 | coverage
lint linter quality

[database]
database db sql sqlite postgres mysql mongodb 数据库 | relational records
table tables 数据表 | columns
describe_table schema | columns types column
list_tables
create_table | columns define_table
query select read_query sql_query | rows matching pull
write_query insert_query delete_query insert update | records change_rows
row record document entry 记录 | records
redis cache key_value key
vector embedding semantic similarity | meaning
collection index bucket

[web]
web internet online website site 网页 网站 互联网 | www
url link hyperlink webpage 链接 | address_of_page
web_search search_engine google bing duckduckgo 搜索引擎 | look_up_online information latest_information sources online
fetch fetch_url fetch_html fetch_markdown fetch_webpage web_content | download page_content url web_page scrape http_request
scrape scraping crawl crawler 爬取 | collect website_data extract_data
browser navigate playwright puppeteer selenium chrome 浏览器 | open_site visit website buy
click press tap 点击 | button
fill type input form 填写 | field enter
screenshot capture snapshot 截图 | picture_of_page
hover drag scroll
evaluate javascript js | script
sitemap site_map | urls
domain whois dns tld registrar 域名 | official legitimacy phishing who_owns fake suspicious registered scam
ip asn network geolocation
ssl certificate tls
cookie session login authentication 登录 | sign_in
rss feed
port nmap pentest scan | attack hacker

[maps]
geocode coordinates latitude longitude geographic_coordinates 坐标 经纬度 | precise_location where pinpoint
reverse_geocode coordinates_to_address | address
address 地址 | location
route directions routing navigation 路线 导航 | how_to_get drive driving walk bike cycling travel_time get_there journey road_trip trip itinerary
distance travel_time 距离 | how_far km miles
nearby near around radius proximity 附近 周边 | close vicinity surroundings neighbourhood local within
place poi points_of_interest venue amenity attraction 景点 | restaurant restaurants cafe shops entertainment tourist sight hospital park museum
category restaurant cafe 餐厅 | lunch dinner bar
parking park_car 停车 | park
charging_station ev electric_vehicle charging 充电
school university campus 学校 | kindergarten
neighborhood area district livability | living move_to
commute transit 通勤 | work
meeting_point midpoint | meet fair middle gather
map maps osm openstreetmap gis 地图 | navigation
country city state region province 城市

[travel]
train railway rail ticket 火车 车票 12306 铁路 | by_rail high_speed seat departure timetable
station station_code 车站 站点 | stations stops
flight airline airport plane aviation 航班 | fly
hotel accommodation airbnb homestay lodging rental stay 酒店 民宿 | room apartment guests booking overnight
travel trip tourism tour 旅游 旅行 | vacation holiday visit sightseeing
bus metro subway 公交 地铁

[weather]
weather forecast temperature climate meteorological 天气 气温 | rain umbrella wear sunny cold snow wind jacket outdoors meteorology humidity
forecast hourly 预报 | prediction tomorrow
alert warning storm 预警 | severe
air_quality pollution aqi | emission
earthquake flood fire disaster
satellite nasa space astronomy

[finance]
stock share equity ticker symbol 股票 股价 | nasdaq investing shares listed_company
price quote cost rate 价格 | how_much worth value pricing expensive cheap
stock_price current_stock_price ticker_info ticker_data | trading_at
price_history historical_stock_prices ohlcv candlestick date_range 行情 | past_year over_the_past daily_change
market_cap market_capitalization 市值
ticker_info fundamental fundamentals financial_ratios | company_info financial_metrics metrics valuation
financial finance investment yahoo_finance 金融 财务 | money investor invest portfolio
income_statement balance_sheet cash_flow cashflow financial_statements revenue 财报 | profit annual_report financial_health
dividend yield payout 分红
earnings earning eps quarter
analyst recommendations upgrade | buy_or_sell
insider institutional holders ownership 股东
option futures derivative
market trading trade exchange 市场 交易
exchange_rate currency forex usd 汇率 货币 | dollar euro yuan cny eur yen convert_money
asset gold silver metal precious commodity 黄金 | ounce gram oil metals
sentiment fear greed fear_greed | bullish bearish mood
economy economic gdp inflation indicator 经济 | interest_rate
payment invoice bill billing bank 支付 | pay charge
tax budget expense | spending
company business corporation enterprise 公司 企业 | firm startup competitor

[crypto]
crypto cryptocurrency bitcoin coin web3 加密货币 比特币 | btc ethereum blockchain
blockchain onchain transaction block ethereum solana 区块链
wallet balance 钱包 | holdings
token nft contract erc20 代币
defi dex pool liquidity swap tvl
gas fee

[shopping]
product item goods catalog 商品 产品 | buy
shop shopping store ecommerce amazon purchase 购物 | buy retailer bargain
review reviews rating feedback 评价 | opinion
order shipment delivery cart 订单
customer contact lead crm deal 客户 | client
campaign marketing advertising ad 广告

[news]
news headline article press 新闻 资讯 | latest_developments current_events happening developments
trending trend trends hot_topics 热点 热搜 | current_topics going_on buzz
hacker_news hackernews story stories | hn
bbc nytimes verge reuters | news_source world
tech_news technology 科技 | gadgets computing software

[social]
email mail gmail inbox 邮件 邮箱 | letter
message chat sms conversation 消息 聊天 | text dm talk
channel group thread discord slack 群组
user account member profile 用户 | who
meeting conference zoom 会议 | video_call
calendar event appointment agenda 日历 日程 | free_time busy
reminder alarm notification 提醒 通知
social_media twitter facebook instagram linkedin reddit tiktok weibo 微博 | tweet
post posts 帖子
comment comments reply discussion 评论 | views opinions
video youtube bilibili 视频 | clip watch
transcript subtitle captions 字幕 | what_is_said spoken
job career hiring vacancy 招聘 | resume employment
drive cloud_storage dropbox 云盘

[knowledge]
wikipedia encyclopedia wiki 百科 | history_of facts_about who_was biography
article page entry 文章
related_topics related links sections section | similar connected chapter
paper publication preprint arxiv academic scholarly scholar 论文 学术 | research literature study journal papers
arxiv | papers
author citation reference cite 作者 引用
research deep_research 研究 | in_depth investigate comprehensive
museum art artwork painting artist 艺术 博物馆 | sculpture gallery
book novel library 书籍 阅读 图书 | reading
quran bible verse scripture
education course class student assignment 教育 课程 | learn
law legal court regulation 法律
government open_data dataset data_gov census 数据集 政府 | official public
translate translation language translator 翻译
dictionary definition meaning word_details 词典 | define synonyms

[health]
biomedical pubmed medical clinical biomedicine 医学 | cancer treatment disease therapy patient doctor
clinical_trial trial nct 临床 | treatment study
gene genetic variant mutation genome 基因 | cancer
drug compound chemical molecule medicine 药物
protein
health fitness nutrition 健康 | diet workout
recipe cooking cook meal dish 菜谱 食谱 菜 | ingredients dinner eat kitchen what_to_eat grocery shopping_list food
fruit calorie

[mathematics]
math equation algebra matrix number 数学
unit units measure conversion 单位 | celsius kg inch
hash checksum md5 sha256 | fingerprint integrity tampered
random dice roll shuffle sample choice 随机 | lottery pick throw toss flip unbiased chance selection coin draw_lots
secure token_hex uuid

[time]
time clock timezone datetime current_time 时间 时区 | what_day hour o_clock
date current_date day 日期 | today tomorrow next_week monday tuesday wednesday thursday friday saturday sunday
lunar chinese_calendar almanac bazi 黄历 八字 农历 | auspicious horoscope zodiac fortune_telling

[thinking]
think thinking reasoning sequential_thinking thought 思考 推理 | step_by_step problem_solving reflect reason revise
prompt 提示
agent assistant llm model gpt

[media]
image_generation generate_image text_to_image | draw_me artwork_of
audio sound speech voice wav mp3 音频 语音 | listen
music song track album playlist 音乐 | melody tune
tempo beat rhythm bpm
duration length 时长
film movie tv anime cinema 电影 | watch

[games]
game gaming player esports 游戏 | gamer play dps tank healer tier build ranked
champion hero 英雄 | lane jungle
league_of_legends lol summoner | runes moba
valorant | shooter fps
character artifact weapon 角色 | team dps healer
card yugioh yu_gi_oh 卡片 卡牌 | duel
deck tft
chess 象棋 | pawn
pokemon
sport football basketball baseball league standings 比赛 | championship score
leetcode coding_challenge daily_challenge contest | algorithm coding_problem

[home]
smart_home light sensor | lamp
device mobile phone android ios simulator 设备
house property real_estate zillow 房产 | rent home
car vehicle 汽车
"""

STOP_WORDS = """
a an the and or but if then else of in on at by for with without from to into onto about as
is are was were be been being am do does did doing have has had having i me my mine we us our
ours you your yours he him his she her it its they them their this that these those there here
what which who whom whose when where why how can could may might must shall should will would
please help want need like just also some any each every either both such same other another
so than too very not no nor only own more most much lot let lets via per etc ie eg using use
used based specific given particular various e g s t re ll ve d m don doesn didn isn aren wasn
haven hasn won able up out off over under again once all one two three along while whatever
everything going goal well good ask give tell provide know get gets go
tool tools function functions available mcp server servers service services platform platforms
operation operations system systems
"""
